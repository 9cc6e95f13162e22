"""What captains can call, by kind; `rules` has the forms that all of it takes."""
