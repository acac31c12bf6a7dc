/** Verifies the artifacts of an export file: each stands in it once, after a version that references it, with the bytes of its hash. */
import { createHash, type Hash } from "node:crypto";
import { partSize, partsOf } from "../protocol/artifacts.ts";
import type { ExportLine, ExportLineOf } from "../protocol/export-lines.ts";

interface OpenArtifact {
  readonly sha256: string;
  readonly size: number;
  readonly hash: Hash;
  /** The number of parts so far. */
  parts: number;
}

export class ArtifactVerifier {
  /** The referenced artifacts that the file does not have yet, with their sizes. */
  readonly #missing = new Map<string, number>();
  readonly #seen = new Set<string>();
  readonly #counts = { artifacts: 0, artifact_bytes: 0, artifacts_lost: 0 };
  readonly #lost: string[] = [];
  #open: OpenArtifact | null = null;

  get counts(): Readonly<Record<"artifacts" | "artifact_bytes" | "artifacts_lost", number>> {
    return this.#counts;
  }

  /** The hashes of the artifacts that the fleet could not read. */
  get lost(): readonly string[] {
    return this.#lost;
  }

  get missing(): ReadonlyMap<string, number> {
    return this.#missing;
  }

  /** Whether parts of the last artifact are missing. */
  get isOpen(): boolean {
    return this.#open !== null;
  }

  /** Notes the artifacts that a version references. */
  addReferences(checkpoint: Record<string, unknown>): void {
    for (const [sha256, size] of referencesIn(checkpoint)) {
      if (!this.#seen.has(sha256)) this.#missing.set(sha256, size);
    }
  }

  /** Returns the problem; null: none. */
  add(line: ExportLine): string | null {
    switch (line.kind) {
      case "artifact":
        return this.#open === null ? this.#begin(line) : this.#interrupted(this.#open);
      case "artifact_part":
        return this.#open === null ? "no artifact was begun" : this.#addPart(this.#open, line);
      case "artifact_lost":
        return this.#addLost(line);
      default:
        return this.#open === null ? null : this.#interrupted(this.#open);
    }
  }

  #begin({ sha256, size }: ExportLineOf<"artifact">): string | null {
    const wanted = this.#missing.get(sha256);
    if (wanted === undefined)
      return this.#seen.has(sha256)
        ? `artifact ${sha256} stands twice in the file`
        : `no version references artifact ${sha256}`;
    if (size !== wanted) return `artifact ${sha256} has ${size} bytes, and its reference says ${wanted}`;
    this.#missing.delete(sha256);
    this.#seen.add(sha256);
    this.#open = { sha256, size, hash: createHash("sha256"), parts: 0 };
    return this.#endIfWhole(this.#open);
  }

  #addPart(open: OpenArtifact, { part, bytes: text }: ExportLineOf<"artifact_part">): string | null {
    if (part !== open.parts) return `expected part ${open.parts} of artifact ${open.sha256}, and not ${part}`;
    const bytes = Buffer.from(text, "base64");
    if (bytes.length !== partSize(open.size, part))
      return `part ${part} of artifact ${open.sha256} has ${bytes.length} bytes`;
    open.hash.update(bytes);
    open.parts += 1;
    return this.#endIfWhole(open);
  }

  #endIfWhole(open: OpenArtifact): string | null {
    if (open.parts < partsOf(open.size)) return null;
    if (open.hash.digest("hex") !== open.sha256)
      return `the hash of artifact ${open.sha256} is not that of its bytes`;
    this.#open = null;
    this.#counts.artifacts += 1;
    this.#counts.artifact_bytes += open.size;
    return null;
  }

  #addLost({ sha256 }: ExportLineOf<"artifact_lost">): string | null {
    if (this.#open !== null && this.#open.sha256 !== sha256) return this.#interrupted(this.#open);
    if (this.#open === null && !this.#missing.has(sha256)) return `no version references artifact ${sha256}`;
    this.#open = null;
    this.#missing.delete(sha256);
    this.#seen.add(sha256);
    this.#counts.artifacts_lost += 1;
    this.#lost.push(sha256);
    return null;
  }

  #interrupted({ sha256, parts }: OpenArtifact): string {
    return `part ${parts} of artifact ${sha256} is missing`;
  }
}

/** The hashes and sizes of the artifacts that a version references. */
export function referencesIn({ artifacts }: Record<string, unknown>): [sha256: string, size: number][] {
  if (!Array.isArray(artifacts)) return [];
  return artifacts.flatMap((one): [string, number][] => {
    const { sha256, size } = (one ?? {}) as { sha256?: unknown; size?: unknown };
    return typeof sha256 === "string" && typeof size === "number" ? [[sha256, size]] : [];
  });
}
