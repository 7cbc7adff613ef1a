//! Matrix products, contractions and covariances.

pub mod contraction;
pub mod covariance;
pub mod einsum;
pub mod kronecker;
pub mod linear;
pub mod matrices;
pub mod product;

operators! { of contraction, covariance, einsum, kronecker, linear, matrices, product; category Weighted }
