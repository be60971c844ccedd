mod evaluate;
mod kernel;
mod random;
mod scenarios;
mod shortage;
mod steps;
mod world;
