//! avg(interval). (sum, min and max run on the ordinary bodies.)

use cairn_types::{Datum, Interval, Result};

use super::{Accumulator, Aggregate, fresh};
use crate::datetime::arithmetic::{interval_quotient, interval_sum};
use crate::{Args, Call};

pub fn aggregate(transition: &str, final_function: Option<&str>) -> Option<Box<dyn Aggregate>> {
    ((transition, final_function) == ("interval_accum", Some("interval_avg"))).then(fresh::<Average>)
}

#[derive(Debug, Default)]
struct Average {
    sum: Interval,
    count: i64,
}

impl Accumulator for Average {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if !args.is_null(0) {
            self.sum = interval_sum(self.sum, args.interval(0)?)?;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        interval_quotient(self.sum, self.count as f64).map(Datum::Interval)
    }
}
