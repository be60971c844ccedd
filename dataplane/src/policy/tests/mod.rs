mod evaluate;
mod kernel;
mod random;
mod scenarios;
mod steps;
mod world;
