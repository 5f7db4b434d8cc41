"""`headrace estimate`: what a run would cost and how long it would take, before anything is published."""
