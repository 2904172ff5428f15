"""Code that commands share.

flags, server_flags, etcd_flags, pool_flags            groups of flags that several commands have
control_plane, foreground, workers, worker_process     how components are put together and run
leadership, health_server, signals, gc_settings, cores what every long-lived process needs
cluster_source, live_server, store_places, manifests   where commands read from
output, progress, status_line, completions             what they print
"""
