/** Verifies the artifacts of export.jsonl: each stands in it once, after a version that references it, with the bytes of its hash. */
import { createHash, type Hash } from "node:crypto";
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import { type ExactJson, type ExactObject, isCountFrom, isExactObject, isHexHash } from "./exact-json.ts";

const PART_BYTES = 1_048_576;

interface PartialArtifact {
  readonly sha256: string;
  readonly size: number;
  readonly hash: Hash;
  parts: number;
  bytes: number;
}

export class BundleArtifacts {
  readonly counts = { artifacts: 0, artifact_bytes: 0, artifacts_lost: 0 };
  /** The referenced artifacts that were not read yet, with their sizes. */
  readonly #missing = new Map<string, number>();
  readonly #seen = new Set<string>();
  #open: PartialArtifact | null = null;

  get missing(): number {
    return this.#missing.size;
  }

  get isOpen(): boolean {
    return this.#open !== null;
  }

  addReferences({ artifacts }: ExactObject): void {
    for (const one of Array.isArray(artifacts) ? (artifacts as readonly ExactJson[]) : []) {
      if (!isExactObject(one) || typeof one.sha256 !== "string" || typeof one.size !== "number") continue;
      if (!this.#seen.has(one.sha256)) this.#missing.set(one.sha256, one.size);
    }
  }

  /** The code of the fault; null: none. undefined: the line is not about artifacts. */
  add(line: ExactObject): string | null | undefined {
    switch (line.kind) {
      case "artifact":
        return this.#begin(line);
      case "artifact_part":
        return this.#part(line);
      case "artifact_lost":
        return this.#lost(line);
      default:
        return undefined;
    }
  }

  #begin({ sha256, size }: ExactObject): string | null {
    if (!isHexHash(sha256) || !isCountFrom(0, size)) return "line";
    if (this.#open !== null || this.#missing.get(sha256) !== size) return "artifact";
    this.#missing.delete(sha256);
    this.#seen.add(sha256);
    this.#open = { sha256, size, hash: createHash("sha256"), parts: 0, bytes: 0 };
    return this.#endIfWhole(this.#open);
  }

  #part({ part, bytes: text }: ExactObject): string | null {
    const bytes = typeof text === "string" ? exactBase64(text) : null;
    if (bytes === null) return "line";
    const open = this.#open;
    if (open === null || part !== open.parts) return "artifact";
    if (bytes.length !== Math.min(PART_BYTES, open.size - open.bytes)) return "artifact";
    open.hash.update(bytes);
    open.parts += 1;
    open.bytes += bytes.length;
    return this.#endIfWhole(open);
  }

  #endIfWhole(open: PartialArtifact): string | null {
    if (open.bytes < open.size) return null;
    if (open.hash.digest("hex") !== open.sha256) return "artifact";
    this.#open = null;
    this.counts.artifacts += 1;
    this.counts.artifact_bytes += open.size;
    return null;
  }

  #lost({ sha256 }: ExactObject): string | null {
    if (!isHexHash(sha256)) return "line";
    if (this.#open === null ? !this.#missing.has(sha256) : this.#open.sha256 !== sha256) return "artifact";
    this.#open = null;
    this.#missing.delete(sha256);
    this.#seen.add(sha256);
    this.counts.artifacts_lost += 1;
    return null;
  }
}
