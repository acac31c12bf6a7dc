/** Where the bytes of artifacts are: in parts, one group of parts for each upload. */

/** An upload. Its id is never used for other bytes, so a removal cannot meet a later upload of the same artifact. */
export interface UploadPlace {
  readonly tenant: string;
  readonly upload: string;
}

export interface ArtifactStore {
  /** The name of the place, for logs. */
  readonly path: string;
  /** Stores a part for good: it is durable when this resolves. Throws CONFLICT if the part has other bytes. */
  put(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void>;
  /** null: there is no such part, or it is larger than a part may be. */
  get(place: UploadPlace, part: number): Promise<Uint8Array | null>;
  /** Makes the names of the parts durable. */
  sync(place: UploadPlace): Promise<void>;
  /** The bytes of all parts by their sizes alone. */
  size(place: UploadPlace): Promise<number>;
  /** Removes all parts. May be repeated. */
  remove(place: UploadPlace): Promise<void>;
  list(): AsyncIterable<UploadPlace>;
}
