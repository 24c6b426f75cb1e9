mod properties;
mod rows;
mod tool;
