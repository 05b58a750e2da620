//! Backward passes through a chain of blocks that keep only the input of each block, and recompute
//! the block when they reach it. Blocks before the first trained one keep nothing and are not
//! recomputed, unless the gradient of the input is wanted.
//!
//! A chain that keeps everything goes back in one pass, but each gradient arrives at a block in the
//! layout that it has when the block starts from a leaf. So both ways compute the same operations
//! on tensors of the same layout, and their gradients have the same bits wherever an operation
//! gives the same bits with and without a graph. In another layout, a sum over a gradient rounds in
//! another order.
//!
//! Everything stays on the calling thread. A block must give the same output each time, so its
//! dropout is a function of a seed.

use tch::Tensor;

use crate::error::InTch;
use crate::runtime::shim;

/// One block: from its input to its output, which is the input of the next block.
pub struct ChainBlock<'a> {
    run: Box<dyn Fn(&Tensor) -> Tensor + 'a>,
    is_trained: bool,
}

pub struct Chain<'a> {
    blocks: Vec<ChainBlock<'a>>,
    recompute: bool,
}

/// A forward pass that waits for the gradient of its output.
pub struct Forward {
    /// The gradient of the input is wanted.
    is_wanted: bool,
    /// The first block that gradients reach.
    first: usize,
    /// The input of each block from there on if they are recomputed, else only that of the first
    /// one.
    inputs: Vec<Tensor>,
    /// The output of the last block with the graph of all of them; None if they are recomputed.
    graph: Option<Tensor>,
    /// The output of the last block, detached.
    output: Tensor,
}

impl<'a> ChainBlock<'a> {
    /// `is_trained`: some of its tensors require gradients.
    pub fn new(is_trained: bool, run: impl Fn(&Tensor) -> Tensor + 'a) -> ChainBlock<'a> {
        ChainBlock { run: Box::new(run), is_trained }
    }
}

impl<'a> Chain<'a> {
    pub fn new(blocks: Vec<ChainBlock<'a>>, recompute: bool) -> Chain<'a> {
        Chain { blocks, recompute }
    }

    pub fn is_trained(&self) -> bool {
        self.blocks.iter().any(|block| block.is_trained)
    }

    /// Runs all blocks on `x`. Its gradient is wanted if it requires one, and goes no further back
    /// by itself.
    pub fn forward(&self, x: &Tensor) -> Forward {
        let is_wanted = x.requires_grad();
        let first = if is_wanted {
            0
        } else {
            self.blocks.iter().take_while(|block| !block.is_trained).count()
        };
        let (frozen, blocks) = self.blocks.split_at(first);
        let start = tch::no_grad(|| run(frozen, &x.detach()));
        let mut forward =
            Forward { is_wanted, first, inputs: Vec::new(), graph: None, output: start };
        if self.recompute {
            tch::no_grad(|| forward.run(blocks))
        } else {
            forward.run_with_graph(blocks)
        }
        forward
    }

    /// Converts the gradient of the output to that of the input, where it is wanted; parameters on
    /// the way accumulate theirs.
    pub fn backward(&self, forward: Forward, gradient: &Tensor) -> Option<Tensor> {
        let Forward { is_wanted, first, mut inputs, graph, output } = forward;
        drop(output);
        if let Some(output) = graph {
            send_back(&output, gradient);
            return inputs.pop().filter(|_| is_wanted).map(|input| gradient_of(&input));
        }
        let mut gradient = gradient.shallow_clone();
        for (at, block) in self.blocks.iter().enumerate().skip(first).rev() {
            let Some(input) = inputs.pop() else { break };
            let goes_on = is_wanted || at > first;
            let input = input.detach().set_requires_grad(goes_on);
            send_back(&(block.run)(&input), &gradient);
            if goes_on {
                gradient = gradient_of(&input);
            }
        }
        is_wanted.then_some(gradient)
    }
}

fn run(blocks: &[ChainBlock<'_>], x: &Tensor) -> Tensor {
    blocks.iter().fold(x.shallow_clone(), |x, block| (block.run)(&x))
}

impl Forward {
    fn run(&mut self, blocks: &[ChainBlock<'_>]) {
        for block in blocks {
            let next = (block.run)(&self.output);
            self.inputs.push(std::mem::replace(&mut self.output, next));
        }
    }

    fn run_with_graph(&mut self, blocks: &[ChainBlock<'_>]) {
        let input = self.output.detach().set_requires_grad(self.is_wanted);
        let output = blocks.iter().enumerate().fold(input.shallow_clone(), |x, (at, block)| {
            (block.run)(&if at == 0 { x } else { shim::border(&x).in_tch() })
        });
        self.output = output.detach();
        self.inputs.push(input);
        self.graph = Some(output);
    }

    /// The output of the last block, detached.
    pub fn output(&self) -> Tensor {
        self.output.detach()
    }
}

/// The same values as the start of a new graph.
pub fn leaf(x: &Tensor) -> Tensor {
    x.detach().set_requires_grad(true)
}

/// The gradient that a leaf was sent; zeros where it was sent none.
fn gradient_of(input: &Tensor) -> Tensor {
    match input.grad() {
        found if found.defined() => found,
        _ => input.zeros_like(),
    }
}

/// Propagates the gradient of `output` back to the leaves of its graph.
pub fn send_back(output: &Tensor, gradient: &Tensor) {
    if output.requires_grad() {
        shim::backward(output, &gradient.detach()).in_tch();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;

    use tch::{Device, Kind};

    use super::*;
    use crate::nn::layers::dropout;
    use crate::nn::random::Random;

    const BLOCKS: usize = 4;

    /// A chain of blocks with a weight each, some of which are frozen.
    struct ChainTrial {
        recompute: bool,
        frozen: [bool; BLOCKS],
        wants_input: bool,
    }

    /// The result: gradients of the weights and of the input, and the runs in which a block
    /// kept something for its way back or was only looked through.
    struct ChainOutcome {
        gradients: Vec<Option<Tensor>>,
        kept: [usize; BLOCKS],
        runs: [usize; BLOCKS],
    }

    impl ChainTrial {
        fn run(&self) -> ChainOutcome {
            let mut random = Random::new(1);
            let weights = self
                .frozen
                .map(|is_frozen| random.normal(&[8, 8], 1.0).set_requires_grad(!is_frozen));
            let x = random.normal(&[4, 8], 1.0).set_requires_grad(self.wants_input);
            let counts = RefCell::new(([0; BLOCKS], [0; BLOCKS]));
            let blocks = (0..BLOCKS).map(|at| {
                let (weight, counts) = (&weights[at], &counts);
                ChainBlock::new(weight.requires_grad(), move |x| {
                    let y = x + dropout(&x.matmul(weight).tanh(), 0.3, at as u64);
                    let (kept, runs) = &mut *counts.borrow_mut();
                    kept[at] += usize::from(y.requires_grad());
                    runs[at] += 1;
                    y
                })
            });
            let chain = Chain::new(blocks.collect(), self.recompute);
            let forward = chain.forward(&x);
            let output = leaf(&forward.output());
            output.square().sum(Kind::Float).backward();
            let gradient = chain.backward(forward, &output.grad());
            let of_weight = |weight: &Tensor| weight.requires_grad().then(|| weight.grad());
            let mut gradients: Vec<Option<Tensor>> = weights.iter().map(of_weight).collect();
            gradients.push(gradient);
            let (kept, runs) = *counts.borrow();
            ChainOutcome { gradients, kept, runs }
        }
    }

    const ALL: ChainTrial =
        ChainTrial { recompute: true, frozen: [false; BLOCKS], wants_input: true };

    #[test]
    fn running_blocks_again_gives_the_same_gradients_to_the_bit() {
        let again = ALL.run();
        assert_eq!(again.gradients, ChainTrial { recompute: false, ..ALL }.run().gradients);
        let is_something = |gradient: &Option<Tensor>| {
            gradient.as_ref().is_some_and(|gradient| gradient.abs().max().double_value(&[]) > 0.0)
        };
        assert!(again.gradients.iter().all(is_something));
        assert_eq!((again.runs, again.kept), ([2; BLOCKS], [1; BLOCKS]));
    }

    /// The gradient of the second block's input is transposed, and the sum over the rows of the
    /// first one would round in another order.
    #[test]
    fn a_gradient_arrives_at_a_block_in_the_layout_of_its_output() {
        let gradient_of_bias = |recompute: bool| {
            let mut random = Random::new(2);
            let weight = random.normal(&[32, 32], 1.0);
            let bias = Tensor::zeros([32], (Kind::Float, Device::Cpu)).set_requires_grad(true);
            let blocks = vec![
                ChainBlock::new(true, |x| x + &bias),
                ChainBlock::new(false, |x| weight.matmul(&x.tr()).tanh()),
            ];
            let chain = Chain::new(blocks, recompute);
            let forward = chain.forward(&random.normal(&[1_000, 32], 1.0));
            let gradient = random.normal(&[32, 1_000], 1.0);
            chain.backward(forward, &gradient);
            bias.grad()
        };
        assert_eq!(gradient_of_bias(true), gradient_of_bias(false));
    }

    #[test]
    fn blocks_before_the_first_trained_one_keep_nothing_and_are_not_run_again() {
        let frozen = [true, true, false, true];
        let all = ALL.run().gradients;
        for recompute in [true, false] {
            let ChainOutcome { gradients, kept, runs } =
                ChainTrial { recompute, frozen, wants_input: false }.run();
            let wanted = [&None, &None, &all[2], &None, &None];
            assert!(gradients.iter().eq(wanted), "{gradients:?}");
            assert_eq!(kept, [0, 0, 1, 1]);
            let again = if recompute { 2 } else { 1 };
            assert_eq!(runs, [1, 1, again, again]);
        }
    }

    #[test]
    fn frozen_blocks_hand_a_gradient_through_to_an_input_that_wants_it() {
        let all = ALL.run().gradients;
        for recompute in [true, false] {
            let frozen = ChainTrial { recompute, frozen: [true; BLOCKS], wants_input: true }.run();
            assert_eq!(frozen.gradients.last(), all.last());
            assert_eq!(frozen.kept, [1; BLOCKS]);
            let nothing =
                ChainTrial { recompute, frozen: [true; BLOCKS], wants_input: false }.run();
            assert_eq!((nothing.kept, nothing.runs), ([0; BLOCKS], [1; BLOCKS]));
        }
    }

    #[test]
    fn a_chain_without_blocks_hands_the_gradient_through() {
        let x = Tensor::from_slice(&[1f32, 2.0]).set_requires_grad(true);
        for recompute in [true, false] {
            let chain = Chain::new(Vec::new(), recompute);
            let forward = chain.forward(&x);
            assert_eq!(forward.output(), x);
            assert_eq!(chain.backward(forward, &(&x * 2.0)), Some(&x * 2.0));
        }
    }
}
