fn main() {
    println!("{:?}", tch::Tensor::from_slice(&[1f32]).sum(tch::Kind::Float));
}
