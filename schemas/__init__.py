"""Everything that crosses a process boundary, and nothing that acts."""
