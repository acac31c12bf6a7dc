// The oldest supported versions, and the comparison of versions.

/** The first Node that runs TypeScript without a flag or a warning. */
export const OLDEST_NODE = "22.18.0";

/** The oldest Node that runs the compiled package. */
export const OLDEST_NODE_COMPILED = "20.18.0";

/** The first nats-server whose JetStream API refuses what it does not know: earlier ones take a confirmation for a request to remove messages. */
export const OLDEST_NATS = "2.12.0";

/** Compares dotted versions by their numbers; suffixes ("-RC.1") are ignored. */
export function versionAtLeast(version, oldest) {
  const numbers = (text) => text.replace(/^v/, "").split(/[.+-]/, 3).map(Number);
  const [have, need] = [numbers(version), numbers(oldest)];
  for (let place = 0; place < 3; place++) {
    const difference = (have[place] ?? 0) - (need[place] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}
