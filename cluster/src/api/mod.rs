//! The API server, as far as it concerns this node.
