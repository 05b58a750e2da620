//! The recorded values of a training by step, for TensorBoard and reports.
//!
//! Only computed values, such as losses: the same work gives the same record, however often it was
//! interrupted. Times are not recorded.

use stage_formats::tensorboard::{EventWriter, Moment};
use tch::{Kind, Tensor};

use super::samples::EventSample;
use crate::error::TorchError;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    names: Vec<String>,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
struct Value {
    step: u64,
    name: usize,
    value: f64,
}

/// By the bits, so that the loss of a skipped step equals itself.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        let bits = |value: &Value| (value.step, value.name, value.value.to_bits());
        bits(self) == bits(other)
    }
}

impl Record {
    pub fn push(&mut self, step: u64, name: &str, value: f64) {
        let name = match self.names.iter().position(|own| own == name) {
            Some(at) => at,
            None => {
                self.names.push(name.to_owned());
                self.names.len() - 1
            }
        };
        self.values.push(Value { step, name, value });
    }

    /// Step, name and value, in recording order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str, f64)> {
        self.values.iter().map(|entry| (entry.step, self.names[entry.name].as_str(), entry.value))
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// As a file for TensorBoard, with the parameters of the training as a text and its samples
    /// after the values of their steps; `tag` maps names. Steps are one second apart.
    pub fn events(
        &self,
        parameters: &str,
        tag: impl Fn(&str) -> &str,
        samples: &[EventSample],
    ) -> Result<Vec<u8>, TorchError> {
        let mut writer = EventWriter::new(Vec::new(), 0.0)?;
        writer.text(Moment { step: 0, seconds: 0.0 }, "parameters", parameters)?;
        for values in self.values.chunk_by(|one, other| one.step == other.step) {
            let step = values[0].step;
            let at = Moment { step, seconds: step as f64 };
            let named = values.iter().map(|entry| (tag(&self.names[entry.name]), entry.value));
            writer.scalars(at, named)?;
            let mut own = samples.iter().filter(|sample| sample.step == step);
            own.try_for_each(|sample| sample.write(at, &mut writer))?;
        }
        Ok(writer.finish()?)
    }

    /// [values, 3]: step, index of the name, value.
    pub fn to_tensor(&self) -> Tensor {
        let row = |entry: &Value| [entry.step as f64, entry.name as f64, entry.value];
        let rows: Vec<f64> = self.values.iter().flat_map(row).collect();
        Tensor::from_slice(&rows).view([self.values.len() as i64, 3])
    }

    pub fn from_tensor(names: &[String], tensor: &Tensor) -> Result<Record, TorchError> {
        let wrong = || TorchError::Model("the record in the checkpoint is damaged".into());
        if tensor.kind() != Kind::Double || tensor.size().get(1..) != Some(&[3]) {
            return Err(wrong());
        }
        let rows: Vec<f64> = Vec::try_from(tensor.contiguous().view(-1))?;
        let value = |row: &[f64; 3]| {
            let [step, name, value] = *row;
            let name = name as usize;
            (name < names.len()).then_some(Value { step: step as u64, name, value })
        };
        let values: Option<Vec<Value>> = rows.as_chunks::<3>().0.iter().map(value).collect();
        Ok(Record { names: names.to_vec(), values: values.ok_or_else(wrong)? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_formats::tensorboard::whole_records;

    use super::*;

    #[test]
    fn a_record_is_the_same_after_a_save() {
        let mut record = Record::default();
        assert_eq!(Record::from_tensor(&[], &record.to_tensor()).unwrap(), record);
        record.push(1, "loss", 0.1 + 0.2);
        record.push(1, "rate", 1e-300);
        record.push(u64::from(u32::MAX), "loss", f64::INFINITY);
        let tensor = record.to_tensor();
        assert_eq!(Record::from_tensor(record.names(), &tensor).unwrap(), record);
        let last = record.iter().last().unwrap();
        assert_eq!(last, (u64::from(u32::MAX), "loss", f64::INFINITY));
        assert!(Record::from_tensor(&[], &tensor).is_err());
    }

    #[test]
    fn events_are_whole_records_and_the_same_each_time() {
        let mut record = Record::default();
        for step in 0..3 {
            record.push(step, "loss", 1.0 / (step as f64 + 1.0));
            record.push(step, "rate", 0.5);
        }
        let written =
            |samples: &[EventSample]| record.events("| steps | 3 |", |name| name, samples).unwrap();
        let events = written(&[]);
        assert_eq!(whole_records(&events), events.len());
        assert_eq!(written(&[]), events);
        let sound = Tensor::from_slice(&[0.5f32; 8]);
        let shown =
            |tag: &str, tensor| EventSample { step: 1, tag: tag.to_owned(), tensor, rate: 8000 };
        let picture = Tensor::from_slice(&[9u8; 6]).view([2, 3]);
        let with = written(&[shown("heard", sound), shown("seen", picture)]);
        assert_eq!(whole_records(&with), with.len());
        for (part, count) in [(&b"RIFF"[..], 1), (b"\x89PNG", 1), (b"heard", 1), (b"seen", 1)] {
            let found = with.windows(part.len()).filter(|window| *window == part).count();
            assert_eq!(found, count, "{part:?}");
        }
        // One record for the version, one for the text, and one for each step.
        let named = events.windows(4).filter(|window| window == b"rate").count();
        assert_eq!(named, 3);
    }
}
