//! The engine: `Builder → Plan → Context`.
