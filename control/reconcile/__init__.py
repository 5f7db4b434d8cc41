"""Published against results and dead letters: what a database that lost commits, or an expired log, has left out."""
