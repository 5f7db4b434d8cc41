"""What a job has done: what one run changed against another."""
