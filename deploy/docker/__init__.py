"""The images of Headrace and what their builds need."""
