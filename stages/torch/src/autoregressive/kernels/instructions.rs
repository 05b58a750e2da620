//! The instructions that a kernel may use; all of them give the same bits.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    Portable,
    /// With FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// With 32 registers of any length.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The widest that the processor has.
    pub fn best() -> Instructions {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let is_wide =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
            return if is_wide { Instructions::Avx512 } else { Instructions::Avx2 };
        }
        Instructions::Portable
    }

    /// All that the processor has.
    #[cfg(test)]
    pub fn all() -> Vec<Instructions> {
        match Instructions::best() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => {
                vec![Instructions::Portable, Instructions::Avx2, Instructions::Avx512]
            }
            best => vec![Instructions::Portable, best],
        }
    }
}

/// Defines a function in plain Rust that is compiled for AVX2 and FMA as well; its first argument
/// chooses. Each number comes from the operations that the source says, so the bits are the same.
macro_rules! vectorised {
    ($(#[$note:meta])* $access:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$note])*
        $access fn $name(
            instructions: $crate::autoregressive::kernels::instructions::Instructions,
            $($argument: $type),*
        ) {
            #[inline(always)]
            fn plain($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn wide($($argument: $type),*) {
                plain($($argument),*);
            }

            match instructions {
                $crate::autoregressive::kernels::instructions::Instructions::Portable => {
                    plain($($argument),*);
                }
                // SAFETY: the processor has the instructions.
                #[cfg(target_arch = "x86_64")]
                _ => unsafe { wide($($argument),*) },
            }
        }
    };
}

pub(super) use vectorised;
