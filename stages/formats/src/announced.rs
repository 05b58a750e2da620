//! The tensors in the header of a file that is being written, and the next one to write.

use crate::error::FormatError;
use crate::tensor::{Tensor, TensorInfo};

#[derive(Debug)]
pub struct AnnouncedTensors {
    format: &'static str,
    /// In the order of the file; those not yet written are from `next` on.
    tensors: Vec<(String, TensorInfo)>,
    next: usize,
}

impl AnnouncedTensors {
    pub fn new(format: &'static str, tensors: Vec<(String, TensorInfo)>) -> AnnouncedTensors {
        AnnouncedTensors { format, tensors, next: 0 }
    }

    pub fn names(&self) -> Vec<String> {
        self.tensors.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The number of a tensor that is about to be written; it must be the next one.
    pub fn expect(&mut self, tensor: &Tensor) -> Result<usize, FormatError> {
        let Some((name, info)) = self.tensors.get(self.next) else {
            return Err(self.refused("there are more tensors than declared".to_owned()));
        };
        if info != tensor.info() {
            let is = tensor.info();
            return Err(self.refused(format!("`{name}` was declared as {info} but is {is}")));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// An error if a tensor was not written.
    pub fn finish(&self) -> Result<(), FormatError> {
        match self.tensors.get(self.next) {
            None => Ok(()),
            Some((name, _)) => Err(self.refused(format!("`{name}` was declared but not written"))),
        }
    }

    fn refused(&self, message: String) -> FormatError {
        FormatError::unwritable(self.format, message)
    }
}
