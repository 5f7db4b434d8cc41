"""`headrace status`: where every run is, at any moment."""
