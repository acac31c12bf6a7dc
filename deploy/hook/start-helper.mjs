// Starts the helper process of the hooks, unless one runs.

import { ensureHelper } from "./hook.mjs";

await ensureHelper();
