//! Matrix products, contractions and covariances.

pub mod added;
pub mod bilinear;
pub mod contraction;
pub mod covariance;
pub mod einsum;
pub mod kronecker;
pub mod linear;
pub mod matrices;
pub mod product;

operators! { of added, bilinear, contraction, covariance, einsum, kronecker, linear, matrices, product; category Weighted }
