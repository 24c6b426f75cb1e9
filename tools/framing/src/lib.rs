//! Splits bytes that other programs send into messages: bounded lines, server-sent events (SSE), event streams of Amazon.
//! It also repairs text and cuts it to a length.
//!
//! It never interprets a message, and never opens a file or a connection.

mod content;
mod density;
pub mod eventstream;
mod lines;
pub mod sse;
pub mod surrogates;
mod text;

pub use content::{Content, next_content};
pub use density::{MAX_VALUES, is_too_dense};
pub use lines::{Line, next_line};
pub use text::{clip, floor};
