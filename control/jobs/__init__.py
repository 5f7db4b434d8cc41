"""Orders for jobs: pause, resume, cancel."""
