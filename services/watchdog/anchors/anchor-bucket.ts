/**
 * A bucket of an object store (S3) with Object Lock: one object for each anchored checkpoint, which no one can change or
 * remove before its time, not even the owner of the account. What the store has kept is read back: a store without locks is refused.
 */
import { createHash } from "node:crypto";
import { AwsClient } from "aws4fetch";
import type { BucketSettings } from "../../../shared/protocol/anchor-bucket-settings.ts";
import type { MadeAnchor } from "../../../shared/records/audit-log/anchor-records.ts";
import { AnchorFailure, answerBytes } from "./anchor-answer.ts";
import type { AnchoredCheckpoint, AnchorKeeper, WallClock } from "./anchor-target.ts";

/** Of all requests for one anchor. Shorter than the lease of a job. */
const ANSWERS_MS = 4_000;
const ANSWER_BYTES_MAX = 65_536;
const MODE = "COMPLIANCE";
/** The store may round the end of the lock. */
const ROUNDING_MS = 3_600_000;
const SIZE_DIGITS = 16;
const DAY_MS = 86_400_000;
const PRECONDITION_FAILED = 412;

export function anchorBucket(
  settings: BucketSettings,
  { everyMs, now }: { readonly everyMs: number; readonly now: WallClock },
): AnchorKeeper {
  const { access_key_id, secret_access_key, session_token, region } = settings;
  const client = new AwsClient({
    accessKeyId: access_key_id,
    secretAccessKey: secret_access_key,
    ...(session_token !== undefined && { sessionToken: session_token }),
    region,
    service: "s3",
    retries: 0,
  });
  return {
    target: "bucket",
    everyMs,
    keep: (log, signal) =>
      keep(client, settings, log, {
        nowMs: now(),
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWERS_MS)]),
      }),
  };
}

interface Attempt {
  readonly nowMs: number;
  readonly signal: AbortSignal;
}

async function keep(
  client: AwsClient,
  { url: bucket, prefix, retain_days }: BucketSettings,
  log: AnchoredCheckpoint,
  { nowMs, signal }: Attempt,
): Promise<MadeAnchor> {
  const { checkpoint } = log;
  await requireLocks(client, bucket, signal);
  const url = `${bucket}/${prefix}${nameOf(log)}`;
  const untilMs = nowMs + retain_days * DAY_MS;
  const put = await client.fetch(url, {
    method: "PUT",
    body: checkpoint,
    headers: {
      "content-type": "text/plain; charset=utf-8",
      // Demanded with a lock.
      "content-md5": createHash("md5").update(checkpoint).digest("base64"),
      "if-none-match": "*",
      "x-amz-object-lock-mode": MODE,
      "x-amz-object-lock-retain-until-date": new Date(untilMs).toISOString(),
    },
    redirect: "error",
    signal,
  });
  await answerBytes(put, ANSWER_BYTES_MAX);
  // An instance that died before it recorded the anchor has made it.
  const exists = put.status === PRECONDITION_FAILED;
  if (!put.ok && !exists) throw new AnchorFailure(`the bucket has answered with the status ${put.status}`);
  const version = put.headers.get("x-amz-version-id");
  const object = version === null ? url : `${url}?versionId=${encodeURIComponent(version)}`;
  const until = await lockedUntil(client, object, checkpoint, signal);
  if (!exists && until < untilMs - ROUNDING_MS)
    throw new AnchorFailure("the bucket keeps the object for a shorter time than was asked for");
  return {
    at: new Date(nowMs).toISOString(),
    checkpoint,
    object,
    retained_until: new Date(until).toISOString(),
  };
}

/** By size, and by content: a log that was written again gets another object. */
function nameOf({ tenant, size, checkpoint }: AnchoredCheckpoint): string {
  const hash = createHash("sha256").update(checkpoint).digest("hex").slice(0, SIZE_DIGITS);
  return `${tenant}/${String(size).padStart(SIZE_DIGITS, "0")}-${hash}.txt`;
}

async function requireLocks(client: AwsClient, bucket: string, signal: AbortSignal): Promise<void> {
  const answer = await client.fetch(`${bucket}?object-lock`, { redirect: "error", signal });
  const text = Buffer.from(await answerBytes(answer, ANSWER_BYTES_MAX)).toString();
  if (!answer.ok || !text.includes("<ObjectLockEnabled>Enabled</ObjectLockEnabled>"))
    throw new AnchorFailure(`the bucket has no Object Lock (status ${answer.status})`);
}

/** The end of the lock of an object with this content. */
async function lockedUntil(
  client: AwsClient,
  object: string,
  content: string,
  signal: AbortSignal,
): Promise<number> {
  const answer = await client.fetch(object, { redirect: "error", signal });
  const bytes = Buffer.from(await answerBytes(answer, ANSWER_BYTES_MAX));
  if (!answer.ok || !bytes.equals(Buffer.from(content)))
    throw new AnchorFailure(`the bucket does not have the checkpoint (status ${answer.status})`);
  const until = Date.parse(answer.headers.get("x-amz-object-lock-retain-until-date") ?? "");
  if (answer.headers.get("x-amz-object-lock-mode") !== MODE || Number.isNaN(until))
    throw new AnchorFailure("the bucket has stored the checkpoint without a lock");
  return until;
}
