"""Pages from the model. A page is a function of the database alone, so equal models give equal books."""
