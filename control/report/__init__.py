"""What a job has done: a page of it, and what one run changed against another."""
