/** The artifacts of a tenant: what is stored, and the uploads of its callers. */
import type { Artifact, ArtifactPage } from "../../protocol/artifacts.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader, Tx } from "../../store/store.ts";
import type { TenantCaller } from "../audit/tenant-audit.ts";
import { parseArtifactReference } from "../kv/artifact-keys.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, endingName, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import {
  type ArtifactRecord,
  decodeArtifact,
  readArtifact,
  readTotalBytes,
  readUpload,
  type UploadRecord,
} from "./record.ts";
import {
  beginUpload,
  endUpload,
  type NewUpload,
  ownUpload,
  type StoredOutcome,
  storeArtifact,
} from "./uploads.ts";

/** References in an answer. */
const SHOWN = 10;

export interface ArtifactRules {
  /** How long an artifact or an upload without a reference stays. */
  readonly graceMs: number;
  /** Bytes of all artifacts and open uploads of one tenant. */
  readonly totalBytesMax: number;
}

export class ArtifactRecords {
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(transactions: Transactions, now: () => number) {
    this.#transactions = transactions;
    this.#now = now;
  }

  /** True: the tenant has the bytes, and they stay for the grace time. */
  async begin(by: TenantCaller, upload: NewUpload, { totalBytesMax }: ArtifactRules): Promise<boolean> {
    const uploader = { ...by, nowMs: this.#now() };
    const { value } = await this.#transactions.transact("artifact_begin", (tx) =>
      beginUpload(tx, uploader, upload, totalBytesMax),
    );
    return value;
  }

  /** Throws NOT_FOUND. */
  upload(by: TenantCaller, upload: string): Promise<UploadRecord> {
    return this.#transactions.read("artifact_upload", (reader) => ownUpload(reader, by, upload));
  }

  /** `damaged`: the upload of the artifact, if its bytes are lost or damaged. */
  async store(by: TenantCaller, upload: string, damaged: string | null): Promise<StoredOutcome> {
    const uploader = { ...by, nowMs: this.#now() };
    const { value } = await this.#transactions.transact("artifact_store", (tx) =>
      storeArtifact(tx, uploader, upload, damaged),
    );
    return value;
  }

  /** null: it is an artifact, has ended, or is of another caller. */
  async end(by: TenantCaller, upload: string): Promise<UploadRecord | null> {
    const { value } = await this.#transactions.transact("artifact_end", (tx) => endOwn(tx, by, upload));
    return value;
  }

  /** null: it is not stored. */
  record(tenant: string, hash: string): Promise<ArtifactRecord | null> {
    return this.#transactions.read("artifact", (reader) => readArtifact(reader, tenantKeys(tenant), hash));
  }

  /** Throws NOT_FOUND. */
  find(tenant: string, hash: string, rules: ArtifactRules): Promise<Artifact> {
    const keys = tenantKeys(tenant);
    return this.#transactions.read("artifact", async (reader) => {
      const artifact = await readArtifact(reader, keys, hash);
      if (artifact === null) throw noArtifact(hash);
      return shown(reader, keys, { hash, artifact }, rules);
    });
  }

  list(
    tenant: string,
    { limit, cursor }: QueryParams<"artifacts">,
    rules: ArtifactRules,
  ): Promise<ArtifactPage> {
    const keys = tenantKeys(tenant);
    const kind = `artifacts/${tenant}`;
    return this.#transactions.read("artifacts", async (reader) => {
      const { begin, end } = keys.artifacts();
      const from = cursor === undefined ? begin : after(keys.artifact(openCursor(kind, cursor)));
      const { rows } = await reader.getRange({ begin: from, end }, { limit: limit + 1 });
      const artifacts: Artifact[] = [];
      for (const { key, value } of rows.slice(0, limit)) {
        const named = { hash: endingName(key), artifact: decodeArtifact(value) };
        artifacts.push(await shown(reader, keys, named, rules));
      }
      const last = artifacts.at(-1);
      return {
        artifacts,
        total_bytes: await readTotalBytes(reader, keys),
        total_bytes_max: rules.totalBytesMax,
        ...(rows.length > limit && last !== undefined && { cursor: sealCursor(kind, last.sha256) }),
      };
    });
  }
}

async function endOwn(tx: Tx, by: TenantCaller, upload: string): Promise<UploadRecord | null> {
  const found = await readUpload(tx, tenantKeys(by.tenant), upload);
  return found?.by === by.caller ? endUpload(tx, by.tenant, upload) : null;
}

export function noArtifact(hash: string): FleetError {
  return new FleetError("NOT_FOUND", "there is no such artifact", { details: { sha256: hash } });
}

async function shown(
  reader: Reader,
  keys: TenantKeys,
  { hash, artifact }: { readonly hash: string; readonly artifact: ArtifactRecord },
  { graceMs }: ArtifactRules,
): Promise<Artifact> {
  const { size, storedMs, storedBy, touchedMs } = artifact;
  const { rows } = await reader.getRange(keys.artifactReferences(hash), { limit: SHOWN });
  return {
    sha256: hash,
    size,
    stored_at: new Date(storedMs).toISOString(),
    stored_by: storedBy,
    kept_until: new Date(touchedMs + graceMs).toISOString(),
    references: rows.map(({ key }) => {
      const { task: task_id, id: checkpoint_id } = parseArtifactReference(key);
      return { task_id, checkpoint_id };
    }),
  };
}
