/** A real nats-server with the files of `fleet access init`, as an administrator starts it. */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { vi } from "vitest";
import { findNatsServer } from "../../deploy/local/nats-binary.mjs";
import { projectRoot } from "./project-root.ts";

/** `dir`: the folder of the files. `folder`: the working folder of the server, for its streams. */
export async function startClusterNats(
  dir: string,
  folder: string,
): Promise<{ readonly url: string; readonly kill: () => void }> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const args = ["-c", join(dir, "nats.conf"), "-p", "-1", "-m", "-1", "--ports_file_dir", folder];
  const nats = spawn(found.path, args, {
    cwd: folder,
    stdio: process.env.FLEET_TEST_LOG ? "inherit" : "ignore",
  });
  const url = await vi.waitFor(() => {
    const file = readdirSync(folder).find((name) => name.endsWith(".ports"));
    return JSON.parse(readFileSync(join(folder, file ?? "none"), "utf8")).nats[0] as string;
  }, 20_000);
  return { url, kill: () => void nats.kill("SIGKILL") };
}
