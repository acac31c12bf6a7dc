// The parts of a standalone fleet's folder with content, and whether they are encrypted: each has the wrapped key of its files beside them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface FolderPart {
  readonly name: "messages of the bus" | "files of the mirror" | "artifacts";
  readonly path: string;
  readonly isEncrypted: boolean;
}

/** Parts that the fleet does not have are left out. */
export function folderPartsOf(home: string): FolderPart[] {
  const [bus, mirror, artifacts] = ["nats", "checkpoints", "artifacts"].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ];
  const stored = namesIn(artifacts).map((name) => join(artifacts, name));
  return [
    ...(existsSync(join(bus, "store"))
      ? [{ name: "messages of the bus", path: bus, isEncrypted: isServerEncrypting(bus) } as const]
      : []),
    ...(existsSync(mirror)
      ? [
          {
            name: "files of the mirror",
            path: mirror,
            isEncrypted: existsSync(join(mirror, "mirror-key.json")),
          } as const,
        ]
      : []),
    ...stored.map((path) => ({
      name: "artifacts" as const,
      path,
      isEncrypted: existsSync(join(path, "artifact-key.json")),
    })),
  ];
}

/** The server reads its key at its start: a key that its settings do not name is in no use. */
function isServerEncrypting(folder: string): boolean {
  const settings = join(folder, "nats.conf");
  return (
    existsSync(join(folder, "stream-key.json")) &&
    existsSync(settings) &&
    /^ {2}cipher: /m.test(readFileSync(settings, "utf8"))
  );
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
