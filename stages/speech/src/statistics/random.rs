//! Random numbers that are the same on every machine and in every version: SplitMix64 (Steele, Lea
//! and Flood 2014).

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Below a bound, by multiplication (Lemire 2019); the bias of 2^-64 per value is ignored.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Above 0 and below 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Of the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first values for this seed in the reference implementation (prng.di.unimi.it,
    /// splitmix64.c).
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let found = [(); 3].map(|()| random.next());
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(found, reference);
    }

    #[test]
    fn normal_numbers_have_the_mean_0_and_the_deviation_1() {
        let mut random = Random::new(7);
        let drawn: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let square = drawn.iter().map(|one| one * one).sum::<f64>() / 1e5;
        let beyond = drawn.iter().filter(|one| one.abs() > 1.645).count();
        // Five standard errors.
        assert!(mean.abs() < 0.016 && (square - 1.0).abs() < 0.023, "{mean} {square}");
        assert!(beyond.abs_diff(10_000) < 475, "{beyond}");
    }

    #[test]
    fn every_place_is_drawn_equally_often() {
        let (mut random, mut counts) = (Random::new(7), [0_u32; 10]);
        (0..100_000).for_each(|_| counts[random.below(10)] += 1);
        // Five standard deviations of 95.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 475), "{counts:?}");
    }
}
