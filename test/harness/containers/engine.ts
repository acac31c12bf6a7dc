// The container engine, driven with the commands that a user types.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { projectRoot } from "../project-root.ts";

const ENGINE_MS = 10_000;
const PULL_MS = 600_000;
const run = promisify(execFile);

/** Returns what the command prints. Throws with its errors. */
export async function docker(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const options = { cwd: projectRoot, env: { ...process.env, ...env }, maxBuffer: 64_000_000 };
  const { stdout } = await run("docker", [...args], options);
  return stdout;
}

/** The reason why no container can be started, in a few words. */
export async function missingEngine(): Promise<string | undefined> {
  try {
    await run("docker", ["info", "--format", "{{.ServerVersion}}"], { timeout: ENGINE_MS });
    return undefined;
  } catch {
    return "no container engine answers";
  }
}

/** Those of the images that are not on this machine, and that no registry gives. */
export async function missingImages(images: readonly string[]): Promise<string[]> {
  const missing: string[] = [];
  for (const image of new Set(images)) {
    const isHere = await run("docker", ["image", "inspect", image]).then(
      () => true,
      () => false,
    );
    if (isHere) continue;
    await run("docker", ["pull", "--quiet", image], { timeout: PULL_MS }).catch(() => missing.push(image));
  }
  return missing;
}
