//! Backward passes through a chain of blocks that keep only the input of each block, and recompute
//! the block when they reach it.
//!
//! Everything stays on the calling thread. A block must give the same output each time, so its
//! dropout is a function of a seed.

use tch::Tensor;

/// One block: from its input to its output, which is the input of the next block.
pub type Block<'a> = Box<dyn Fn(&Tensor) -> Tensor + 'a>;

pub struct Chain<'a> {
    blocks: Vec<Block<'a>>,
    recompute: bool,
}

/// A forward pass that waits for the gradient of its output.
pub struct Forward {
    /// The input of each recomputed block, or of the whole.
    inputs: Vec<Tensor>,
    output: Tensor,
}

impl<'a> Chain<'a> {
    pub fn new(blocks: Vec<Block<'a>>, recompute: bool) -> Chain<'a> {
        Chain { blocks, recompute }
    }

    /// Runs all blocks on `x`, which is detached from earlier operations.
    pub fn forward(&self, x: &Tensor) -> Forward {
        if self.recompute {
            return self.forward_without_graph(x);
        }
        let input = leaf(x);
        let output = self.blocks.iter().fold(input.shallow_clone(), |x, block| block(&x));
        Forward { inputs: vec![input], output }
    }

    fn forward_without_graph(&self, x: &Tensor) -> Forward {
        let _guard = tch::no_grad_guard();
        let mut inputs = Vec::with_capacity(self.blocks.len());
        let mut output = x.detach();
        for block in &self.blocks {
            let next = block(&output);
            inputs.push(output);
            output = next;
        }
        Forward { inputs, output }
    }

    /// Converts the gradient of the output to that of the input; parameters on the way accumulate
    /// theirs.
    pub fn backward(&self, forward: Forward, gradient: &Tensor) -> Tensor {
        let Forward { mut inputs, output } = forward;
        if !self.recompute {
            return match inputs.pop() {
                Some(input) => derive(&input, &output, gradient),
                None => gradient.shallow_clone(),
            };
        }
        drop(output);
        let mut gradient = gradient.shallow_clone();
        for block in self.blocks.iter().rev() {
            let Some(input) = inputs.pop() else { break };
            let input = leaf(&input);
            let output = block(&input);
            gradient = derive(&input, &output, &gradient);
        }
        gradient
    }
}

impl Forward {
    /// The output of the last block, detached.
    pub fn output(&self) -> Tensor {
        self.output.detach()
    }
}

/// A detached copy with the same values that requires gradients.
pub fn leaf(x: &Tensor) -> Tensor {
    x.detach().set_requires_grad(true)
}

/// Propagates the gradient of `output` back; returns that of `input`. The derivative of the sum of
/// `output * gradient` by `output` is `gradient` itself, to the bit.
pub fn derive(input: &Tensor, output: &Tensor, gradient: &Tensor) -> Tensor {
    send_back(output, gradient);
    match input.grad() {
        found if found.defined() => found,
        _ => input.zeros_like(),
    }
}

/// Propagates the gradient of `output` back to the leaves of its graph.
pub fn send_back(output: &Tensor, gradient: &Tensor) {
    if output.requires_grad() {
        (output * gradient.detach()).sum(output.kind()).backward();
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::layers::dropout;

    /// The gradients of two weights and of the input, with and without recomputing blocks.
    fn gradients(recompute: bool) -> Vec<Tensor> {
        tch::manual_seed(1);
        let options = (Kind::Float, Device::Cpu);
        let weights = [0, 1].map(|_| Tensor::randn([8, 8], options).set_requires_grad(true));
        let x = Tensor::randn([4, 8], options);
        let blocks = weights.iter().zip(0..).map(|(weight, seed)| -> Block {
            Box::new(move |x| x + dropout(&x.matmul(weight).tanh(), 0.3, seed))
        });
        let chain = Chain::new(blocks.collect(), recompute);
        let forward = chain.forward(&x);
        let output = leaf(&forward.output());
        output.square().sum(Kind::Float).backward();
        let gradient = chain.backward(forward, &output.grad());
        vec![weights[0].grad(), weights[1].grad(), gradient]
    }

    #[test]
    fn running_blocks_again_gives_the_same_gradients_to_the_bit() {
        assert_eq!(gradients(true), gradients(false));
        assert!(
            gradients(true).iter().all(|gradient| gradient.abs().max().double_value(&[]) > 0.0)
        );
    }

    #[test]
    fn a_chain_without_blocks_hands_the_gradient_through() {
        let x = Tensor::from_slice(&[1f32, 2.0]);
        for recompute in [true, false] {
            let chain = Chain::new(Vec::new(), recompute);
            let forward = chain.forward(&x);
            assert_eq!(forward.output(), x);
            assert_eq!(chain.backward(forward, &(&x * 2.0)), &x * 2.0);
        }
    }
}
