/** Where the bytes of artifacts are: in parts, one group of parts for each upload. */
import { FleetError, invalid } from "../protocol/errors.ts";
import { isCheckpointId, isToken } from "../protocol/ids.ts";

/** An upload. Its id is never used for other bytes, so a removal cannot meet a later upload of the same artifact. */
export interface UploadPlace {
  readonly tenant: string;
  readonly upload: string;
}

/** `parts`: at least as many as it has. */
export interface StoredUpload extends UploadPlace {
  readonly parts: number;
}

export interface ArtifactStore {
  /** The name of the place, for logs. */
  readonly path: string;
  /** Stores a part for good: it is durable when this resolves. Throws CONFLICT if the part has other bytes. */
  put(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void>;
  /** null: there is no such part, its bytes are damaged as far as the place can know, or it is larger than a part may be. */
  get(place: UploadPlace, part: number): Promise<Uint8Array | null>;
  /** Makes the names of the parts durable. */
  sync(place: UploadPlace): Promise<void>;
  /** The bytes of its parts by their sizes alone. */
  size(upload: StoredUpload): Promise<number>;
  /** A text that is another one after its parts were changed, replaced or removed, as far as the place can know cheaply. */
  state(upload: StoredUpload): Promise<string>;
  /** Removes its parts. May be repeated. */
  remove(upload: StoredUpload): Promise<void>;
  list(): AsyncIterable<StoredUpload>;
  /** Removes what parts that a crash cut short left before this time. Returns the number of removed fragments. */
  removeFragments(beforeMs: number): Promise<number>;
}

/** Names from outside must not lead to another place. Throws INVALID. */
export function requirePlace({ tenant, upload }: UploadPlace): void {
  if (!isToken(tenant)) throw invalid("tenant", "a name of a tenant", tenant);
  if (!isCheckpointId(upload)) throw invalid("upload_id", "a UUIDv7 in lower case", upload);
}

export function otherBytes(part: number): FleetError {
  return new FleetError("CONFLICT", "the upload has other bytes in this part", { details: { part } });
}
