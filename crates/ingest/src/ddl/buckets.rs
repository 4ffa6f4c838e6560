//! The number of buckets of partitions that are added.

use freshet_base::{Result, TableId};
use freshet_meta::{BucketsSpec, Catalog, DistributionSpec};

use super::Ddl;

impl Ddl {
    /// ALTER TABLE .. MODIFY DISTRIBUTION: partitions that are added from then on without a number
    /// have so many buckets. Those that are there keep theirs.
    ///
    /// # Errors
    /// Those of [`Catalog::distribution_with`], and those of the log.
    pub async fn set_distribution(
        &self,
        id: TableId,
        distribution: DistributionSpec,
        buckets: BucketsSpec,
    ) -> Result<()> {
        let change = |catalog: &Catalog| catalog.distribution_with(id, &distribution, buckets);
        self.define(id, change).await.map(drop)
    }
}
