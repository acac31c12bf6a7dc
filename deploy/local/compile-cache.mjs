// Node's compile cache, which commands and the standalone fleet share. It saves a third of their start time. Without a writable folder,
// they only start slower.

import module from "node:module";
import { join } from "node:path";
import { root } from "./root.mjs";

/** For the modules that are loaded from now on, also by threads and child processes, which take the folder from the environment. */
export function enableCompileCache() {
  process.env.NODE_COMPILE_CACHE ||= join(root, ".fleet", "compile-cache");
  module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);
}
