//! Passes: from the graph of a file to a better one that computes the same.
