"""Foreign job files to the body of a job of ours. Pure: text and facts in, values out."""
