/** Metrics of the store, its sweeps and its verification. */
import type { MetricMakers } from "./metric-makers.ts";

export function sweepMetrics(make: MetricMakers) {
  return {
    missionLocksSweptTotal: make.counter(
      "fleet_mission_locks_swept_total",
      "Locks and waits that ended by time, or because their agent was lost.",
    ),
    missionMessagesFailedTotal: make.counter(
      "fleet_mission_messages_failed_total",
      "Messages that a recipient did not acknowledge in time.",
    ),
    retentionRemovedTotal: make.counter("fleet_retention_removed_total", "Checkpoints removed by retention."),
    shreddedCheckpointsTotal: make.counter(
      "fleet_shredded_checkpoints_total",
      "Checkpoints removed because two persons had their task shredded.",
    ),
    shreddedTasksTotal: make.counter("fleet_shredded_tasks_total", "Tasks that were shredded."),
    shreddingsKept: make.gauge(
      "fleet_shreddings_kept",
      "Tasks whose shredding was approved and that a hold or a promise keeps, in the last round.",
    ),
    shreddingsFailed: make.gauge(
      "fleet_shreddings_failed",
      "Tasks whose shredding was approved and that could not be shredded in the last round, or whose late messages could not be erased.",
    ),
    retentionFreedBytesTotal: make.counter(
      "fleet_retention_freed_bytes_total",
      "Bytes that the removed checkpoints took in the store.",
    ),
    artifactsRemovedTotal: make.counter(
      "fleet_artifacts_removed_total",
      "Artifacts removed because no checkpoint references them.",
    ),
    artifactsRepairedTotal: make.counter(
      "fleet_artifacts_repaired_total",
      "Artifacts whose lost or damaged bytes another upload replaced.",
    ),
    indexPrunedTotal: make.counter(
      "fleet_index_pruned_total",
      "Words of removed checkpoints that were removed from the search index, once for each checkpoint.",
    ),
    retentionLastRun: make.gauge(
      "fleet_retention_last_run_timestamp_seconds",
      "End of the last pass of retention by this process, in seconds since the epoch; 0: there was none.",
    ),
    retentionBacklog: make.gauge(
      "fleet_retention_backlog",
      "Checkpoints that the last pass could not remove, because their task changed or has a damaged record.",
    ),
  };
}

function encryptionMetrics(make: MetricMakers) {
  return {
    encryptedRowsTotal: make.counter(
      "fleet_encrypted_rows_total",
      "Plain rows that this process encrypted because they are older than the encryption of the store.",
    ),
    encryptionComplete: make.gauge(
      "fleet_encryption_complete",
      "1: all rows of the store that hold content are encrypted. 0: they are not, or this process does not know.",
    ),
    encryptionKeysRewrappedTotal: make.counter(
      "fleet_encryption_keys_rewrapped_total",
      "Bucket keys and data keys that were wrapped again, in rotations.",
    ),
    encryptionOtherRoots: make.gauge(
      "fleet_encryption_other_roots",
      "Bucket keys that a root key other than the first of FLEET_ENCRYPTION_KEY wrapped.",
    ),
    encryptionKeysDamaged: make.backlog(
      "fleet_encryption_keys_damaged",
      "Wrapped keys that could not be unwrapped when this process last tried to wrap them again: bucket keys, and data keys.",
      ["kind"],
    ),
    encryptionRootsAway: make.gauge(
      "fleet_encryption_roots_away",
      "Root keys that wrapped bucket keys and could not be used when this process last tried to wrap them again.",
    ),
  };
}

function accessLogMetrics(make: MetricMakers) {
  return {
    accessEntriesTotal: make.counter(
      "fleet_access_entries_total",
      "Entries of the access log: written, or lost because the log could not be written for too long.",
      ["outcome"],
    ),
    accessFailuresTotal: make.counter(
      "fleet_access_failures_total",
      "Attempts to write the access log that failed. Each is repeated.",
    ),
    accessPrunedTotal: make.counter(
      "fleet_access_pruned_total",
      "Entries of the access log that retention has removed.",
    ),
  };
}

export function storageMetrics(make: MetricMakers) {
  return {
    ...encryptionMetrics(make),
    indexLag: make.gauge("fleet_index_lag", "Events that the search index does not contain yet."),
    signaturesTotal: make.counter(
      "fleet_signatures_total",
      "Signatures of commits: one for each chain of entries.",
    ),
    deadLetters: make.gauge("fleet_dead_letters", "Dead letters that have not been retried or dropped."),
    streamFillRatio: make.gauge(
      "fleet_stream_fill_ratio",
      "The part of its bytes that the queue or the stream of dead letters has filled, from 0 to 1.",
      ["stream"],
    ),
    streamFindingsTotal: make.counter(
      "fleet_stream_findings_total",
      "Streams and consumers found missing, altered, paused, sealed or full, by kind and whether repaired.",
      ["kind", "repaired"],
    ),
    mirrorLagMs: make.durations(
      "fleet_mirror_lag_ms",
      "Time from the commit of a checkpoint to its file in the mirror, in milliseconds.",
    ),
    mirrorFailuresTotal: make.counter(
      "fleet_mirror_failures_total",
      "Failed steps of the file mirror, by cause: failed, disk_low, sync, or unsafe: a place that is not a plain file or folder.",
      ["cause"],
    ),
    diskFreeBytes: make.backlog(
      "fleet_disk_free_bytes",
      "Free space of the disk of the store, and of that of the standalone fleet's bus, in bytes.",
      ["disk_of"],
    ),
  };
}

export function scrubMetrics(make: MetricMakers) {
  const scrubAgeSeconds = make.gauge(
    "fleet_scrub_age_seconds",
    "Time since the whole store was last verified, in seconds: since the end of the last complete scrub.",
  );
  // Absent until the first scrub has ended: an age of 0 would look as if all were well.
  scrubAgeSeconds.remove();

  return {
    scrubAgeSeconds,
    scrubPassSeconds: make.gauge(
      "fleet_scrub_pass_seconds",
      "Duration of the current scrub so far, in seconds; 0 when there is none.",
    ),
    scrubCheckpointsTotal: make.counter(
      "fleet_scrub_checkpoints_total",
      "Checkpoint versions that scrubs verified.",
    ),
    scrubArtifactsTotal: make.counter("fleet_scrub_artifacts_total", "Artifacts whose bytes scrubs hashed."),
    scrubBytesTotal: make.counter("fleet_scrub_bytes_total", "Bytes that scrubs read."),
    checkpointCorruptTotal: make.counter(
      "fleet_checkpoint_corrupt_total",
      "Stored checkpoints that failed their hash.",
    ),
    checkpointRestoredTotal: make.counter(
      "fleet_checkpoint_restored_total",
      "Stored checkpoints that were lost or corrupt and were restored from the file mirror.",
    ),
    scrubFindingsTotal: make.counter("fleet_scrub_findings_total", "New findings of scrubs.", ["kind"]),
  };
}

export function auditLogMetrics(make: MetricMakers) {
  return {
    ...accessLogMetrics(make),
    auditLogAppendedTotal: make.counter(
      "fleet_audit_log_appended_total",
      "Audit entries appended to the Merkle logs of their tenants.",
    ),
    auditLogSize: make.gauge("fleet_audit_log_size", "Audit entries in the Merkle logs of all tenants."),
    auditLogDelaySeconds: make.gauge(
      "fleet_audit_log_delay_seconds",
      "Age of the oldest audit entry that is not in the Merkle log of its tenant, in seconds; 0: all are. Without damaged logs.",
    ),
    auditLogsDamaged: make.gauge(
      "fleet_audit_logs_damaged",
      "Tenants whose Merkle log is damaged, so that no entry is appended to it.",
    ),
    auditLogDamageTotal: make.counter(
      "fleet_audit_log_damage_total",
      "Damaged audit entries and rows of the feed that the audit log has passed.",
      ["kind"],
    ),
    auditAnchorsTotal: make.counter(
      "fleet_audit_anchors_total",
      "Anchors of checkpoints of audit logs, made and failed.",
      ["target", "outcome"],
    ),
    auditAnchorAgeSeconds: make.gauge(
      "fleet_audit_anchor_age_seconds",
      "Age of the last anchor of the audit log that has waited longest for its next one, in seconds; 0: every checkpoint is anchored.",
      ["target"],
    ),
    auditLogsCut: make.gauge(
      "fleet_audit_logs_cut",
      "Tenants whose Merkle log is shorter than one of its anchors.",
      ["target"],
    ),
    auditAnchorIntervalSeconds: make.gauge(
      "fleet_audit_anchor_interval_seconds",
      "Shortest time between two anchors of one audit log, in seconds.",
      ["target"],
    ),
  };
}
