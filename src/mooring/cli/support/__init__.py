"""Code that commands share.

flags, server_flags, etcd_flags, simulation_settings   groups of flags that several commands have
control_plane, foreground, workers, worker_process     how components are put together and run
leadership, health_server, process_settings            what every long-lived process needs
cluster_source, store_places, manifests                where commands read from
output, progress, status_line, completions             what they print
"""
