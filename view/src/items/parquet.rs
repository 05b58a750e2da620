//! Items as a Parquet file: `id` and a column for each field; a blob is a group of its digest, size
//! and kind. A field with text in one row and a number in another becomes text.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use stage_core::{Blob, Item, Value};

use super::{Listing, heading, text_of};

/// The number of rows in a group.
const ROWS: usize = 100_000;

#[derive(Clone, Copy, PartialEq)]
enum ParquetColumn {
    Text,
    Number,
    Blob,
}

pub fn write(listing: &Listing) -> Result<Vec<u8>> {
    let columns: Vec<ParquetColumn> =
        listing.fields.iter().map(|name| column(listing, name)).collect();
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema(listing, &columns)?, Arc::default())?;
    for rows in listing.rows.chunks(ROWS) {
        let mut group = writer.next_row_group()?;
        let ids: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(&*row.id)).collect();
        texts(&mut group, &ids, None)?;
        for (name, column) in listing.fields.iter().zip(&columns) {
            field(&mut group, rows, name, *column)?;
        }
        group.close()?;
    }
    writer.into_inner()
}

fn column(listing: &Listing, name: &str) -> ParquetColumn {
    let kind = |value: &Value| match value {
        Value::Text(_) => ParquetColumn::Text,
        Value::Number(_) => ParquetColumn::Number,
        Value::Blob(_) => ParquetColumn::Blob,
    };
    let mut kinds = listing.rows.iter().filter_map(|row| row.fields.get(name)).map(kind);
    match kinds.next() {
        Some(first) if kinds.all(|kind| kind == first) => first,
        _ => ParquetColumn::Text,
    }
}

fn schema(listing: &Listing, columns: &[ParquetColumn]) -> Result<TypePtr> {
    let mut fields = vec![text_type("id", Repetition::REQUIRED)?];
    for (name, column) in listing.fields.iter().zip(columns) {
        fields.push(match column {
            ParquetColumn::Text => text_type(heading(name), Repetition::OPTIONAL)?,
            ParquetColumn::Number => {
                number_type(heading(name), Physical::DOUBLE, Repetition::OPTIONAL)?
            }
            ParquetColumn::Blob => blob_type(heading(name))?,
        });
    }
    Ok(Arc::new(Type::group_type_builder("items").with_fields(fields).build()?))
}

fn text_type(name: &str, repetition: Repetition) -> Result<TypePtr> {
    let builder = Type::primitive_type_builder(name, Physical::BYTE_ARRAY);
    let builder = builder.with_logical_type(Some(LogicalType::String)).with_repetition(repetition);
    Ok(Arc::new(builder.build()?))
}

fn number_type(name: &str, physical: Physical, repetition: Repetition) -> Result<TypePtr> {
    let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    Ok(Arc::new(builder.build()?))
}

fn blob_type(name: &str) -> Result<TypePtr> {
    let fields = vec![
        text_type("digest", Repetition::REQUIRED)?,
        number_type("size", Physical::INT64, Repetition::REQUIRED)?,
        text_type("kind", Repetition::REQUIRED)?,
    ];
    let builder = Type::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(builder.with_fields(fields).build()?))
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn field(group: &mut Group, rows: &[Item], name: &str, column: ParquetColumn) -> Result<()> {
    let values: Vec<&Value> = rows.iter().filter_map(|row| row.fields.get(name)).collect();
    let levels: Vec<i16> =
        rows.iter().map(|row| i16::from(row.fields.get(name).is_some())).collect();
    let levels = Some(levels.as_slice());
    match column {
        ParquetColumn::Text => {
            let values: Vec<ByteArray> =
                values.iter().map(|value| text_of(value).into_bytes().into()).collect();
            texts(group, &values, levels)
        }
        ParquetColumn::Number => {
            let values: Vec<f64> = values.iter().filter_map(|value| value.as_number()).collect();
            if let Some(mut column) = group.next_column()? {
                column.typed::<DoubleType>().write_batch(&values, levels, None)?;
                column.close()?;
            }
            Ok(())
        }
        ParquetColumn::Blob => {
            let blobs: Vec<&Arc<Blob>> =
                values.iter().filter_map(|value| value.as_blob()).collect();
            self::blobs(group, &blobs, levels)
        }
    }
}

fn blobs(group: &mut Group, blobs: &[&Arc<Blob>], levels: Option<&[i16]>) -> Result<()> {
    let digests: Vec<ByteArray> =
        blobs.iter().map(|blob| blob.digest.to_string().into_bytes().into()).collect();
    texts(group, &digests, levels)?;
    let sizes: Vec<i64> = blobs.iter().map(|blob| blob.size as i64).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&sizes, levels, None)?;
        column.close()?;
    }
    let kinds: Vec<ByteArray> = blobs.iter().map(|blob| ByteArray::from(&*blob.kind)).collect();
    texts(group, &kinds, levels)
}

fn texts(group: &mut Group, values: &[ByteArray], levels: Option<&[i16]>) -> Result<()> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(values, levels, None)?;
        column.close()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::listing;
    use super::*;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn the_file_is_read_back_with_every_value() {
        let bytes = write(&listing()).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].contains("id: \"clip1\"") && rows[0].contains("size: 1500"), "{}", rows[0]);
        assert!(rows[0].contains("seconds: 1.5") && rows[0].contains("kind: \"audio/wav\""));
        assert!(rows[1].contains("audio: null") && rows[1].contains("seconds: NaN"), "{}", rows[1]);
    }
}
