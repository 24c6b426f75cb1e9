//! Text that other programs send: how it is split into messages, mended and cut to a length.
//!
//! Knows nothing of what the messages say, and opens no file or connection of its own.

mod lines;
pub mod sse;
pub mod surrogates;
mod text;

pub use lines::{Line, next_line};
pub use text::{clip, floor};
