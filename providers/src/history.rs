//! The messages of a request in a wire format, read one after the other, so that a request that continues another one
//! encodes only what is new.

use leftfold_events::request::RequestMessage;
use serde_json::Value;

/// A conversation as far as it was read. What a message becomes depends only on the messages before it.
pub(crate) trait History: Send {
    fn add(&mut self, message: &RequestMessage);

    /// Takes out the entries at the beginning that no later message changes.
    fn settle(&mut self) -> Vec<Value>;

    /// The entries after those that were taken out, as in a request that ends here.
    fn open(&self) -> Vec<Value>;

    /// Whether the API refuses to enable thinking in a request that ends here.
    fn lacks_thinking(&self) -> bool {
        false
    }

    /// A copy, for messages at the end that later requests may have otherwise.
    fn fork(&self) -> Box<dyn History>;
}
