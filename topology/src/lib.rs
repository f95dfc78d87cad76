//! Links and distances, the best set of GPUs, the drawings.
