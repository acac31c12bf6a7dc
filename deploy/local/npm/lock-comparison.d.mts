export function packagesUnlikeLock(root: string): string[];
