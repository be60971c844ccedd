mod kernel;
mod model;
mod random;
mod scenarios;
mod shortage;
