mod kernel;
mod model;
mod outside;
mod random;
mod scenarios;
mod shortage;
