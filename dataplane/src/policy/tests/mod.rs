mod evaluate;
mod kernel;
mod random;
mod scenarios;
mod world;
