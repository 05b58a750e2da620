//! Written files are read back; `tests/fixtures/check_samples.py` checks that PyTorch reads them too.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stage_formats::pth::{PthFile, PthWriter};
use stage_formats::{Dtype, Tensor, TensorInfo};

fn write(tensors: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let infos = tensors.iter().map(|(name, tensor)| (name.clone(), tensor.info().clone()));
    let mut writer = PthWriter::new(Vec::new(), infos.collect()).unwrap();
    for name in writer.order() {
        writer.write(&tensors[&name]).unwrap();
    }
    writer.finish().unwrap()
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let shape = proptest::collection::vec(0usize..5, 0..4);
    (0..Dtype::ALL.len(), shape, any::<u8>()).prop_map(|(dtype, shape, fill)| {
        let info = TensorInfo::new(Dtype::ALL[dtype], shape);
        let data = vec![fill; info.bytes().unwrap()];
        Tensor::new(info, data).unwrap()
    })
}

proptest! {
    #[test]
    fn tensors_come_back(tensors in proptest::collection::btree_map("[a-zä.0-9]{1,9}", tensor(), 1..9)) {
        let bytes = write(&tensors);
        prop_assert_eq!(&write(&tensors), &bytes);
        let file = PthFile::read(bytes).unwrap();
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for (name, tensor) in &tensors {
            prop_assert_eq!(&file.tensor(name).unwrap(), tensor);
        }
    }
}

#[test]
fn storages_begin_at_multiples_of_64() {
    let tensors: BTreeMap<String, Tensor> = (1..9)
        .map(|size| (format!("t{size}"), Tensor::from_f32([size], &vec![1.5; size]).unwrap()))
        .collect();
    let bytes = bytes::Bytes::from(write(&tensors));
    let file = PthFile::read(bytes.clone()).unwrap();
    for name in tensors.keys() {
        let data = file.tensor(name).unwrap();
        let offset = data.data().as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(offset % 64, 0, "{name}");
    }
}

#[test]
fn more_entries_than_16_bits_count_are_read_back() {
    let one = Tensor::new(TensorInfo::new(Dtype::U8, []), vec![3]).unwrap();
    let tensors: BTreeMap<String, Tensor> =
        (0..70_000).map(|number| (format!("t{number}"), one.clone())).collect();
    let file = PthFile::read(write(&tensors)).unwrap();
    assert_eq!(file.tensors().len(), 70_000);
    assert_eq!(file.tensor("t69999").unwrap(), one);
}

#[test]
fn tensors_come_in_the_announced_order_and_all_of_them() {
    let info = TensorInfo::new(Dtype::F32, [1]);
    let new = || PthWriter::new(Vec::new(), [("a".to_owned(), info.clone())].into()).unwrap();
    let one = Tensor::from_f32([1], &[1.0]).unwrap();
    let two = Tensor::from_f32([2], &[1.0; 2]).unwrap();
    assert!(new().finish().is_err());
    let mut writer = new();
    assert!(writer.write(&two).is_err());
    writer.write(&one).unwrap();
    assert!(writer.write(&one).is_err());
}
