//! The operations that the endpoint answers; the library answers `NotImplemented` for all others.

use std::sync::Arc;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, Bucket, BucketLocationConstraint, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput, DeleteBucketOutput, DeleteObjectInput,
    DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, GetBucketLocationInput, GetBucketLocationOutput,
    GetBucketVersioningInput, GetBucketVersioningOutput, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput,
    ListPartsOutput, PutObjectInput, PutObjectOutput, UploadPartInput, UploadPartOutput,
};
use s3s::region::Region;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use super::disk::Disk;
use super::failure::blocking;
use super::listing::Query;
use super::{completion, multipart, object, pages};

/// The region whose buckets have no location, and where making a bucket again succeeds.
const FIRST_REGION: &str = "us-east-1";

/// The endpoint's operations on one folder.
pub(super) struct Service {
    disk: Arc<Disk>,
}

impl Service {
    pub(super) fn new(disk: Arc<Disk>) -> Self {
        Self { disk }
    }

    fn disk(&self) -> Arc<Disk> {
        Arc::clone(&self.disk)
    }

    async fn expect_bucket(&self, bucket: String) -> S3Result<()> {
        let disk = self.disk();
        blocking(move || disk.bucket(&bucket)).await?;
        Ok(())
    }
}

/// The region that the request was signed for: every bucket is in the region where it is asked for.
fn region<T>(request: &S3Request<T>) -> String {
    let signed = request.region.as_ref().map(Region::as_str);
    signed.unwrap_or(FIRST_REGION).to_owned()
}

#[async_trait::async_trait]
impl S3 for Service {
    async fn list_buckets(&self, _request: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
        let disk = self.disk();
        let buckets = blocking(move || disk.buckets()).await?;
        let shown = buckets.into_iter().map(|(name, created)| Bucket {
            name: Some(name),
            creation_date: Some(created.into()),
            ..Bucket::default()
        });
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(shown.collect()),
            owner: Some(pages::owner()),
            ..ListBucketsOutput::default()
        }))
    }

    async fn create_bucket(&self, request: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        let is_first_region = region(&request) == FIRST_REGION;
        let (disk, bucket) = (self.disk(), request.input.bucket.clone());
        let is_new = blocking(move || disk.create_bucket(&bucket)).await?;
        if !is_new && !is_first_region {
            return Err(s3_error!(
                BucketAlreadyOwnedByYou,
                "Your previous request to create the named bucket succeeded and you already own it."
            ));
        }
        Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{}", request.input.bucket)) }))
    }

    async fn delete_bucket(&self, request: S3Request<DeleteBucketInput>) -> S3Result<S3Response<DeleteBucketOutput>> {
        let (disk, bucket) = (self.disk(), request.input.bucket);
        blocking(move || {
            disk.bucket(&bucket)?;
            let any = Query { limit: 1, ..Query::default() };
            if !disk.list(&bucket, &any)?.objects.is_empty() {
                return Err(s3_error!(BucketNotEmpty, "The bucket you tried to delete is not empty"));
            }
            disk.delete_bucket(&bucket)
        })
        .await?;
        Ok(S3Response::new(DeleteBucketOutput::default()))
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        let bucket_region = Some(region(&request));
        self.expect_bucket(request.input.bucket).await?;
        Ok(S3Response::new(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() }))
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        let region = region(&request);
        self.expect_bucket(request.input.bucket).await?;
        Ok(S3Response::new(GetBucketLocationOutput {
            location_constraint: (region != FIRST_REGION).then(|| BucketLocationConstraint::from(region)),
        }))
    }

    async fn get_bucket_versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        self.expect_bucket(request.input.bucket).await?;
        Ok(S3Response::new(GetBucketVersioningOutput::default()))
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        object::put(self.disk(), request).await.map(S3Response::new)
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let answer = object::get(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let answer = object::head(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        let answer = object::delete(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn delete_objects(&self, request: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let answer = object::delete_many(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn copy_object(&self, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        let answer = object::copy(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn list_objects(&self, request: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
        let answer = pages::list_v1(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn list_objects_v2(&self, request: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let answer = pages::list_v2(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let answer = multipart::create(self.disk(), request).await;
        answer.map(S3Response::new)
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let answer = multipart::upload_part(self.disk(), request).await;
        answer.map(S3Response::new)
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let answer = completion::complete(self.disk(), request).await;
        answer.map(S3Response::new)
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let answer = multipart::abort(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let answer = multipart::list_uploads(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        let answer = multipart::list_parts(self.disk(), request.input).await;
        answer.map(S3Response::new)
    }
}
